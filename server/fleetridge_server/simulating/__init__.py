"""A fleet that does not exist, posted to a running server as agents would: to see the product before there is one."""
