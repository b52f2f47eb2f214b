"""SQL texts to statements: holes masked, several dialects, a fallback for what does not parse."""
