package codec

import "errors"

// What parsing and Extract return, wrapped with the offending value.
var (
	ErrNotMark   = errors.New("not a mark")     // bytes of another protocol
	ErrMalformed = errors.New("malformed mark") // claims to be a mark, is not well-formed
	ErrShort     = errors.New("too short")      // fewer bytes than the headers need

	// ErrForeign: a mark that a destination reads and leaves in the packet, since it is not as
	// Pillion writes it.
	ErrForeign = errors.New("mark of another writer")
)

// What Insert and Extract return for a packet that is not sound in itself.
var (
	ErrVersion  = errors.New("not an IPv4 or IPv6 packet")
	ErrLength   = errors.New("length field disagrees with packet")
	ErrChecksum = errors.New("wrong IPv4 header checksum")
)

// What Insert returns for a packet or an argument that it refuses.
var (
	ErrModules            = errors.New("invalid set of modules")
	ErrEncoding           = errors.New("encoding does not fit")
	ErrPort               = errors.New("port is not usable")
	ErrSurplus            = errors.New("UDP datagram has a surplus area")
	ErrOptionRoom         = errors.New("TCP header has no room for an option")
	ErrMarked             = errors.New("packet is already marked")
	ErrTooLong            = errors.New("packet would exceed its length field")
	ErrFragment           = errors.New("packet is a fragment")
	ErrHeaderOptions      = errors.New("IPv4 header has options")
	ErrDestinationOptions = errors.New("packet has a Destination Options header")
	ErrRouting            = errors.New("packet has a Routing header")
	ErrAuthentication     = errors.New("packet has an Authentication header")
)
