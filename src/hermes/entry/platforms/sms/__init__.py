"""SMS and MMS, through Twilio."""
