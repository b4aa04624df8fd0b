package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrChanged is a key that another server has written since it was read.
	ErrChanged = errors.New("changed by another server")
	// ErrNoKey is a key without a value.
	ErrNoKey = errors.New("no such key")
	// ErrTooLarge is a value that exceeds what the cluster accepts.
	ErrTooLarge = errors.New("value exceeds max_payload of the cluster")
)

// KVOptions of a bucket. They apply when it is created.
type KVOptions struct {
	// TTL is the time after which a key that is not written again expires; 0: never.
	TTL time.Duration
	// Replicas are the nodes that store the bucket; 0: three where the cluster has as many,
	// else one.
	Replicas int
}

// Entry is the value of a key. Revisions ascend within a bucket; also in one that was deleted
// and created again.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
	Deleted  bool // or expired
}

// KV is a bucket of a cluster's key-value store. What a method has written survives the
// failure of a minority of the nodes.
type KV struct {
	conn   *nats.Conn
	bucket jetstream.KeyValue
	stream string // that stores it
	ttl    time.Duration
}

const (
	// kvWait limits one request to the cluster; kvOpenWait the time in which a bucket must be
	// open, if the context has no deadline: a cluster that starts elects leaders first.
	kvWait     = 5 * time.Second
	kvOpenWait = 30 * time.Second
	// aloneAfter is how long a bucket waits for three nodes: some may be restarting.
	aloneAfter   = 5 * time.Second
	kvReplicas   = 3
	kvStreamName = "KV_"
	kvSubject    = "$KV."
	kvDuplicates = 2 * time.Minute // limit of NATS
)

// Error codes of JetStream for which nats.go has no name.
const (
	codeNoPeers      jetstream.ErrorCode = 10005 // fewer nodes than replicas
	codeNotClustered jetstream.ErrorCode = 10074
)

// KV opens a bucket, which it creates if it is absent. It fails on an embedded bus.
func (s *Server) KV(ctx context.Context, bucket string, o KVOptions) (*KV, error) {
	if s.options.InProcess != nil {
		return nil, fmt.Errorf("open bucket %q: the embedded bus stores no keys", bucket)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, kvOpenWait)
		defer cancel()
	}
	js, err := jetstream.New(s.conn)
	begun := time.Now()
	for attempt := 1; err == nil; attempt++ {
		var k *KV
		if k, err = s.openKV(ctx, js, bucket, o, time.Since(begun) > aloneAfter); err == nil {
			return k, nil
		}
		if errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, jetstream.ErrInvalidBucketName) {
			break
		}
		s.log.Debug("open bucket", "bucket", bucket, "error", err)
		select {
		case <-time.After(min(backOff(attempt), time.Second)):
			err = nil
		case <-ctx.Done():
		}
	}
	return nil, fmt.Errorf("open bucket %q: %w; does the NATS cluster have JetStream and a majority of its nodes?", bucket, err)
}

func (s *Server) openKV(ctx context.Context, js jetstream.JetStream, bucket string, o KVOptions, alone bool) (*KV, error) {
	ctx, cancel := context.WithTimeout(ctx, kvWait)
	defer cancel()
	stream, err := js.Stream(ctx, kvStreamName+bucket)
	replicas := o.Replicas
	if replicas == 0 {
		replicas = kvReplicas
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config := bucketConfig(bucket, o.TTL, replicas)
		stream, err = js.CreateStream(ctx, config)
		if o.Replicas == 0 && (hasCode(err, codeNotClustered) || alone && hasCode(err, codeNoPeers)) {
			config.Replicas = 1
			stream, err = js.CreateStream(ctx, config)
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another server was faster
			stream, err = js.Stream(ctx, kvStreamName+bucket)
		}
	}
	if err != nil {
		return nil, err
	}
	config := stream.CachedInfo().Config
	if config.Replicas < replicas { // it was created when the cluster had fewer nodes
		config.Replicas = replicas
		if _, err := js.UpdateStream(ctx, config); err != nil && o.Replicas != 0 {
			return nil, err
		}
	}
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, err
	}
	return &KV{conn: s.conn, bucket: kv, stream: kvStreamName + bucket, ttl: config.MaxAge}, nil
}

// bucketConfig is the configuration that NATS clients use, with two differences: values are read from the
// node that leads the bucket, because others may lag; and revisions begin with the time, so
// that they are higher than the revisions of an earlier bucket of the name.
func bucketConfig(bucket string, ttl time.Duration, replicas int) jetstream.StreamConfig {
	duplicates := kvDuplicates
	if ttl > 0 {
		duplicates = min(ttl, kvDuplicates)
	}
	return jetstream.StreamConfig{
		Name: kvStreamName + bucket, Subjects: []string{kvSubject + bucket + ".>"},
		MaxMsgsPerSubject: 1, MaxAge: ttl, Replicas: replicas, Duplicates: duplicates,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		AllowRollup: true, DenyDelete: true, Discard: jetstream.DiscardNew,
		FirstSeq: uint64(time.Now().UnixMilli()),
	}
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && e.ErrorCode == code
}

// Get returns a key's value, or ErrNoKey.
func (k *KV) Get(ctx context.Context, key string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, kvWait)
	defer cancel()
	e, err := k.bucket.Get(ctx, key)
	if err != nil {
		return Entry{}, k.wrap("read", key, err)
	}
	return Entry{Key: key, Value: e.Value(), Revision: e.Revision()}, nil
}

// Create writes a key that has no value; ErrChanged if it has one.
func (k *KV) Create(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, kvWait)
	defer cancel()
	revision, err = k.bucket.Create(ctx, key, value)
	return revision, k.wrap("create", key, err)
}

// Update writes a key whose value has that revision; ErrChanged if it has another. After a
// different error it may be written or not.
func (k *KV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, kvWait)
	defer cancel()
	revision, err := k.bucket.Update(ctx, key, value, revision)
	return revision, k.wrap("update", key, err)
}

// Delete removes the value of that revision; ErrChanged if it has another.
func (k *KV) Delete(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, kvWait)
	defer cancel()
	return k.wrap("delete", key, k.bucket.Delete(ctx, key, jetstream.LastRevision(revision)))
}

// Purge removes what is left of keys that were deleted so long ago.
func (k *KV) Purge(ctx context.Context, ago time.Duration) error {
	if err := k.bucket.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(ago)); err != nil {
		return fmt.Errorf("purge deleted keys of bucket %q: %w", strings.TrimPrefix(k.stream, kvStreamName), err)
	}
	return nil
}

func (k *KV) wrap(verb, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence), hasCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant),
		errors.Is(err, jetstream.ErrKeyExists):
		err = ErrChanged
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		err = ErrNoKey
	case errors.Is(err, nats.ErrMaxPayload):
		err = ErrTooLarge
	}
	return fmt.Errorf("%s key %q of bucket %q: %w", verb, key, strings.TrimPrefix(k.stream, kvStreamName), err)
}
