"""What a task is, how installed tasks are found by name, and how tables speak of them."""
