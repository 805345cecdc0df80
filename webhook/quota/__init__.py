"""Tier quotas: what a gang costs (usage), the books (book), and how they are written without ever over-admitting (ledger)."""
