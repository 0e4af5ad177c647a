"""Texts that users register, and finding what repeats them."""
