"""What commands do: plan, answer questions, and carry a plan out, each as one function of its options."""
