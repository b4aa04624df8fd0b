package archive

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options of a server for the archive that it opens.
type Options struct {
	// Folder is the server's data directory, where an embedded archive has its files
	// by default.
	Folder string
	// Memory limits the archive's memory in the server's process, bytes; 0 is the
	// archive's default.
	Memory int64
	// Quota of each agent.
	Quota Quota
	// Queries bounds the processes that answer users' queries; zero fields are the
	// archive's defaults.
	Queries Queries
	// Arrivals are streams whose rows an archive that implements Arrivals passes on.
	Arrivals []string
	// Now is the time of arrival, from which Retain counts; default time.Now.
	Now func() time.Time
}

// Queries bounds the processes that answer queries in a user's SQL.
type Queries struct {
	// AtOnce is the number of processes.
	AtOnce int
	// Memory of each, bytes.
	Memory int64
	// Processors of each.
	Processors int
}

// Opener opens the archive at a location, or creates it. The location is the URL after
// the scheme and colon; empty means the default.
type Opener func(location string, options Options) (Archive, error)

// Checker reports what is wrong with a location, or with a file that it names, without opening the archive.
type Checker func(location string) error

var (
	openers  = map[string]Opener{}
	checkers = map[string]Checker{}
)

// Register makes an archive available under the scheme of its URLs. A package calls it
// from its init function.
func Register(scheme string, open Opener) { openers[scheme] = open }

// RegisterCheck adds what Check does for a scheme.
func RegisterCheck(scheme string, check Checker) { checkers[scheme] = check }

// Check reports what is wrong with a URL before Open would connect.
func Check(url string) error {
	scheme, location, _ := strings.Cut(url, ":")
	if openers[scheme] == nil {
		return fmt.Errorf("open archive %q: no such kind of archive; use %s", url, strings.Join(Schemes(), ", "))
	}
	if check := checkers[scheme]; check != nil {
		return check(location)
	}
	return nil
}

// Open opens the archive that a URL names, such as duckdb:PATH.
func Open(url string, options Options) (Archive, error) {
	if err := Check(url); err != nil {
		return nil, err
	}
	scheme, location, _ := strings.Cut(url, ":")
	opened, err := openers[scheme](location, options)
	if err != nil {
		return nil, err // opened may be a nil pointer, which is not nil as an interface
	}
	return opened, nil
}

// Schemes lists the schemes that Open knows, as they are written.
func Schemes() []string {
	var all []string
	for _, scheme := range slices.Sorted(maps.Keys(openers)) {
		all = append(all, scheme+":")
	}
	return all
}
