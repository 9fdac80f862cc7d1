"""The lessons as notebooks (``L00_...py`` to ``L18_...py``), the kit they are written with, and what runs them."""
