"""Files: written atomically, locked, hashed, and read with every bad line named."""
