package version

// Release is the release that this source is, or continues. docs/changes.md says what it has. A
// program works together with this release's programs, and reads their files; the test of upgrades
// builds them from the commit that last changed this file.
const Release = "0.1.0"
