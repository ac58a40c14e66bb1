module github.com/trainspan/trainspan/tools/packaging

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.9.3
	github.com/google/licensecheck v0.3.1
)
