"""The agents of a gateway: which there are, what builds one, and the parts that it is built from."""
