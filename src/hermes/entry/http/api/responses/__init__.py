"""`/v1/responses`: an agent behind the Responses API."""
