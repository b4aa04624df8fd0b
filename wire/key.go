package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// KeyLength is the length of a Key in bytes.
const KeyLength = 16

// A Key authenticates the marks that one host writes for another: wire.h says how the tag of
// a mark is computed. It is a secret of the two.
type Key [KeyLength]byte

// ParseKey reads the 32 hexadecimal digits of a key, with white space around them.
func ParseKey(text string) (Key, error) {
	var k Key
	digits := strings.TrimSpace(text)
	if len(digits) != 2*KeyLength {
		return Key{}, fmt.Errorf("parse key: %d characters, want %d hexadecimal digits", len(digits), 2*KeyLength)
	}
	if _, err := hex.Decode(k[:], []byte(digits)); err != nil {
		return Key{}, fmt.Errorf("parse key: not hexadecimal digits") // without the digits
	}
	return k, nil
}

// Words are the key as SipHash reads it.
func (k Key) Words() [2]uint64 {
	return [2]uint64{binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])}
}

// String hides the key from logs.
func (k Key) String() string { return "secret" }

// GoString does the same.
func (k Key) GoString() string { return "secret" }
