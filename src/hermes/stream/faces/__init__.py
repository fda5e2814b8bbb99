"""One answer in the form each door needs: terminal text, chat chunks, responses, run events."""
