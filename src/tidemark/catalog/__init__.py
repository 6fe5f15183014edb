"""Tables of a Unity Catalog schema: what works on them in another way than on directories."""
