"""The rooms of the worker: one for the protocol (service), one for what the user brings (overlay), and one for each
kind of question. Only standard modules and torch are imported here, and torch only after the overlay is in place."""
