"""What a scaling costs those who publish, subscribe and receive meanwhile."""
