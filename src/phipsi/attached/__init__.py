"""What is attached to bodies: shapes, and what robot files say of them."""
