package session

import "regexp"

// A session is named like an agent: a DNS label (RFC 1123), lowercase. Keys of
// labels may have more, as Kubernetes has them.
var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	keyPattern    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)
	valuePattern  = regexp.MustCompile(`^[A-Za-z0-9._/-]{0,63}$`)
	devicePattern = regexp.MustCompile(`^[!-.0-9;-~]{1,15}$`) // no blank, slash or colon, as the kernel has it
)

// ValidName reports whether a session or an agent can have that name: lowercase
// letters, digits and inner hyphens, at most 63.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// ValidLabel reports whether an agent can have that label: letters, digits and
// ._/- inside, at most 63 each; the value may be empty.
func ValidLabel(key, value string) bool {
	return keyPattern.MatchString(key) && valuePattern.MatchString(value)
}

const nameRule = "use lowercase letters, digits and inner hyphens, at most 63"
