"""DingTalk: the robot of an internal app in Stream mode."""
