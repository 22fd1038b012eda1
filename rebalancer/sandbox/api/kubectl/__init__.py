"""What only kubectl asks for: lists as tables, and the documents by which it checks what it creates."""
