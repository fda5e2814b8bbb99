"""Email: a mailbox that is read by IMAP and answers by SMTP."""
