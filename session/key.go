package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"pillion.dev/wire"
)

// A Key is a secret that only the agents of one session and the server have. JSON has it in
// base64; as text it is never shown, so that it appears in no log.
type Key []byte

// NewKey draws a key at random.
func NewKey() Key {
	key := make(Key, wire.KeyLength)
	_, _ = rand.Read(key) // never fails
	return key
}

// Pair returns the key of a source and a destination of the session: what one pair shares,
// other agents of the session do not know.
func (k Key) Pair(source, destination string) Key {
	derive := hmac.New(sha256.New, k)
	for _, part := range []string{"pair", source, destination} {
		derive.Write(append([]byte(part), 0))
	}
	return derive.Sum(nil)[:wire.KeyLength]
}

// Format hides the key from all verbs of package fmt.
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(secret)")) }
