"""What an API server does to an object before storing it: admission, patches, deletion, eviction, binding."""
