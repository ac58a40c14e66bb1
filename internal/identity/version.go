package identity

// Version is the version of this library as records report it.
const Version = "0.1.0"
