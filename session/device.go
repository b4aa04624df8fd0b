package session

import "strings"

// Devices returns the network interfaces that a specification names for an agent; none: that
// of the route.
func Devices(named string) []string {
	if named == "" {
		return nil
	}
	return strings.Split(named, ",")
}
