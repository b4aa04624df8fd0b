package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// sealer encrypts and authenticates the items of the bucket with keys derived from the key of the
// certificate authority. Without it, nobody can read or forge a value, but an old value can be replayed.
type sealer struct {
	secret  []byte
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

const (
	// sealFormat is the first byte of each value: the rest is compressed by Zstandard, then encrypted by AES-256-GCM.
	sealFormat = 1
	keyLength  = 32
	// openedMost is the maximum size of a decompressed item, bytes.
	openedMost = 256 << 20
)

// errSealed is returned for a value that this server cannot decrypt or authenticate.
var errSealed = errors.New("the value was not sealed with the key of this certificate authority, or was changed")

func newSealer(secret []byte) (*sealer, error) {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(openedMost))
	return &sealer{secret, encoder, decoder}, err
}

// aead returns the cipher of an item. Its key is derived from the item's name, so that the values
// of two items cannot be exchanged, and so few values share a key that random nonces suffice.
func (s *sealer) aead(name string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s.secret, nil, "pillion state 1 "+name, keyLength)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (s *sealer) seal(name string, item []byte) ([]byte, error) {
	aead, err := s.aead(name)
	if err != nil {
		return nil, err
	}
	return aead.Seal([]byte{sealFormat}, nil, s.encoder.EncodeAll(item, nil), nil), nil
}

func (s *sealer) open(name string, value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] != sealFormat {
		return nil, fmt.Errorf("%w: unknown format", errSealed)
	}
	aead, err := s.aead(name)
	if err != nil {
		return nil, err
	}
	packed, err := aead.Open(nil, nil, value[1:], nil)
	if err != nil {
		return nil, errSealed
	}
	return s.decoder.DecodeAll(packed, nil)
}
