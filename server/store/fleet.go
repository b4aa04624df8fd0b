package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pillion.dev/bus"
)

// ErrAuthority is a server whose certificate authority is not its fleet's.
var ErrAuthority = errors.New("another certificate authority")

// Identity of a server.
type Identity struct {
	// Fingerprint of its certificate authority, and a secret derived from the authority's key.
	Fingerprint string
	Secret      []byte
	// Host and Folder are where its files are, for error messages.
	Host, Folder string
}

// member is what the bucket says of the authority: who opened it first.
type member struct {
	Fingerprint string    `json:"fingerprint"`
	Host        string    `json:"host"`
	Folder      string    `json:"folder"`
	Time        time.Time `json:"time"`
}

// memberKey is readable without the authority's key.
const memberKey = "authority"

// NewKV opens the state of a fleet. It fails with ErrAuthority unless this server has the same
// authority as the others.
func NewKV(ctx context.Context, bucket Bucket, own Identity) (*KV, error) {
	s := &KV{bucket: bucket, slots: map[string]*slot{}, loaded: map[string]uint64{}}
	var err error
	if s.sealer, err = newSealer(own.Secret); err == nil {
		err = retry(ctx, func() error { return s.admit(ctx, own) })
	}
	if err != nil {
		return nil, fmt.Errorf("open the fleet's state: %w", err)
	}
	return s, nil
}

// admit compares the authority with the fleet's, or makes it the fleet's if there is none.
func (s *KV) admit(ctx context.Context, own Identity) error {
	e, err := s.bucket.Get(ctx, memberKey)
	if errors.Is(err, bus.ErrNoKey) {
		text, err := json.Marshal(member{own.Fingerprint, own.Host, own.Folder, time.Now().UTC()})
		if err != nil {
			return err
		}
		if _, err = s.bucket.Create(ctx, memberKey, text); errors.Is(err, ErrChanged) {
			return errRetry
		}
		return err
	}
	if err != nil {
		return err
	}
	var first member
	if err := json.Unmarshal(e.Value, &first); err != nil {
		return permanent{fmt.Errorf("read key %s: %w", memberKey, err)}
	}
	if first.Fingerprint != own.Fingerprint {
		return permanent{fmt.Errorf("%w: this server's has the fingerprint %.16s..., the fleet's %.16s...; "+
			"copy the file authority/authority.pem of another server (the first one: %s on %s) to %s/authority on this one, and start it again",
			ErrAuthority, own.Fingerprint, first.Fingerprint, first.Folder, first.Host, own.Folder)}
	}
	return nil
}

// permanent errors are not retried.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }
