// Package quota defines how one part of Pillion tells another that an agent, a source
// address or a local user has reached its share of something. It enforces nothing.
package quota

import (
	"errors"
	"fmt"
)

// Error refuses something because of its originator, not because the server is full.
type Error struct {
	// Quota is its key under quotas in the configuration.
	Quota string
	Limit int64
	// Unit of the limit, such as "streams for each agent".
	Unit string
	// What was refused.
	What string
	// Later: trying again may succeed, once something else has expired.
	Later bool
}

// Error has the limit and its key.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: the limit is %d %s (quotas.%s)", e.What, e.Limit, e.Unit, e.Quota)
}

// Of returns the quota that an error is about, or nil.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}
