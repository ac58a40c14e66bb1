package config

// EnvironmentVariables are those that the documents name.
var EnvironmentVariables = environmentVariables
