package session

import "regexp"

// Names of sessions and agents are lowercase DNS labels (RFC 1123). Labels have the
// syntax of Kubernetes.
var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	keyPattern    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)
	valuePattern  = regexp.MustCompile(`^[A-Za-z0-9._/-]{0,63}$`)
	devicePattern = regexp.MustCompile(`^[!-.0-9;-~]{1,15}$`) // no space, slash or colon, as in the kernel
)

// ValidName reports whether a name is valid for a session or an agent: lowercase
// letters, digits and inner hyphens, at most 63.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// ValidLabel reports whether a label is valid: letters, digits and inner ._/- in both
// parts, at most 63 each; the value may be empty.
func ValidLabel(key, value string) bool {
	return keyPattern.MatchString(key) && valuePattern.MatchString(value)
}

const nameRule = "use lowercase letters, digits and inner hyphens, at most 63"
