package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
	"pillion.dev/internal/test/hang"
	"pillion.dev/server/store/storetest"
)

// patience is the timeout of every wait; no test asserts a duration.
const patience = hang.Limit

var own = Identity{Fingerprint: "f1", Secret: []byte("secret"), Host: "h", Folder: "/data"}

func openKV(t *testing.T, bucket Bucket) *KV {
	t.Helper()
	k, err := NewKV(t.Context(), bucket, own)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func load(t *testing.T, s Store, collection string) map[string]string {
	t.Helper()
	items, err := s.Load(t.Context(), collection)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for key, item := range items {
		var compact bytes.Buffer
		if json.Compact(&compact, item) != nil { // not JSON
			compact.Write(item)
		}
		texts[key] = compact.String()
	}
	return texts
}

func write(t *testing.T, s Store, collection string, keysAndItems ...string) {
	t.Helper()
	if err := s.Write(t.Context(), collection, itemsOf(keysAndItems...)); err != nil {
		t.Fatal(err)
	}
}

// itemsOf: an empty item is deleted.
func itemsOf(keysAndItems ...string) map[string][]byte {
	items := map[string][]byte{}
	for i := 0; i < len(keysAndItems); i += 2 {
		items[keysAndItems[i]] = nil
		if keysAndItems[i+1] != "" {
			items[keysAndItems[i]] = []byte(keysAndItems[i+1])
		}
	}
	return items
}

func expect(t *testing.T, s Store, collection string, keysAndItems ...string) {
	t.Helper()
	if got, want := fmt.Sprint(load(t, s, collection)), fmt.Sprintf("%s", itemsOf(keysAndItems...)); got != want {
		t.Errorf("%s: %s, want %s", collection, got, want)
	}
}

// TestStores runs the suite that every store passes.
func TestStores(t *testing.T) {
	for name, open := range map[string]func() Store{
		"files":  func() Store { return NewFiles(t.TempDir()) },
		"memory": func() Store { return openKV(t, storetest.New()) },
	} {
		t.Run(name, func(t *testing.T) { conformance(t, open()) })
	}
	m := storetest.New()
	t.Run("fleet", func(t *testing.T) { fleetConformance(t, openKV(t, m), openKV(t, m)) })
}

// conformance is for an empty store.
func conformance(t *testing.T, s Store) {
	expect(t, s, "tables")
	odd := "tables/a b/c.*>$\"\x7fü" + strings.Repeat("=", 1000)
	write(t, s, "tables", "tables/a", "1", odd, `{"x":[2]}`, "tables/", "3")
	expect(t, s, "tables", "tables/a", "1", odd, `{"x":[2]}`, "tables/", "3")
	write(t, s, "tables", "tables/a", "", "tables/none", "", "tables/", "4")
	expect(t, s, "tables", odd, `{"x":[2]}`, "tables/", "4")
	write(t, s, "tables", "tables/a", "5", odd, "")
	expect(t, s, "tables", "tables/a", "5", "tables/", "4")
	write(t, s, "signed", Whole, "1")
	write(t, s, "signed", Whole, "2")
	expect(t, s, "signed", Whole, "2")
	write(t, s, "hosts", "left/1", "1")
	expect(t, s, "hosts", "left/1", "1")
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() { write(t, s, "history", "history/"+Position(uint64(n)), fmt.Sprint(n)) })
	}
	all.Wait()
	if got := load(t, s, "history"); len(got) != 100 || got["history/"+Position(42)] != "42" {
		t.Errorf("100 concurrent writes of other items: %d items", len(got))
	}
}

// fleetConformance is for two servers of an empty store.
func fleetConformance(t *testing.T, one, two Store) {
	write(t, one, "tables", "tables/a", "1")
	if err := two.Write(t.Context(), "tables", itemsOf("tables/a", "2")); !errors.Is(err, ErrChanged) {
		t.Errorf("wrote an item that it has not read: %v", err)
	}
	expect(t, two, "tables", "tables/a", "1")
	write(t, two, "tables", "tables/a", "2")
	if err := one.Write(t.Context(), "tables", itemsOf("tables/a", "")); !errors.Is(err, ErrChanged) {
		t.Errorf("deleted what another server has written: %v", err)
	}
	expect(t, one, "tables", "tables/a", "2")

	// Each follows what the other writes, and may then write it itself.
	type change struct{ key, item string }
	var mu sync.Mutex
	changes := make(chan change, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- two.Follow(ctx, "tables", &mu, func(key string, item []byte) { changes <- change{key, string(item)} })
	}()
	next := func(want change) {
		t.Helper()
		select {
		case got := <-changes:
			if got != want {
				t.Errorf("followed %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("never followed %q", want)
		}
	}
	write(t, one, "tables", "tables/b", "1")
	next(change{"tables/b", "1"})
	mu.Lock() // so that the change is noted
	write(t, two, "tables", "tables/b", "2", "tables/own", "1")
	mu.Unlock()
	write(t, two, "tables", "tables/own", "")
	expect(t, one, "tables", "tables/a", "2", "tables/b", "2")
	write(t, one, "tables", "tables/b", "")
	next(change{"tables/b", ""})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("follow ended: %v", err)
	}

	// Of concurrent writers exactly one wins each time.
	write(t, one, "tables", "tables/n", "0")
	var all sync.WaitGroup
	wins := make(chan struct{}, 1000)
	for _, s := range []Store{one, two} {
		all.Go(func() {
			for range 50 {
				items, err := s.Load(t.Context(), "tables")
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				fmt.Sscan(string(items["tables/n"]), &n)
				err = s.Write(t.Context(), "tables", itemsOf("tables/n", fmt.Sprint(n+1)))
				if err == nil {
					wins <- struct{}{}
				} else if !errors.Is(err, ErrChanged) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := load(t, one, "tables")["tables/n"]; got != fmt.Sprint(len(wins)) || len(wins) == 0 {
		t.Errorf("counted to %s in %d successful writes", got, len(wins))
	}
}

// TestFaultsOfTheCluster: a write of which the reply was lost is recognised, whether it arrived or not.
func TestFaultsOfTheCluster(t *testing.T) {
	m := storetest.New()
	s := openKV(t, m)
	for _, row := range []struct {
		name         string
		lose, refuse int
		item         string
	}{
		{"create, lost", 1, 0, "1"}, {"update, lost", 1, 0, "2"}, {"update, lost twice", 2, 0, "3"},
		{"update, refused", 0, 2, "4"}, {"delete, lost", 1, 0, ""}, {"create, refused", 0, 1, "5"}, {"delete, refused", 0, 1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			m.Fail(row.lose, row.refuse)
			write(t, s, "tables", "tables/a", row.item)
			want := []string{}
			if row.item != "" {
				want = []string{"tables/a", row.item}
			}
			expect(t, openKV(t, m), "tables", want...)
		})
	}
	// The caller gave up, and tries another value later.
	write(t, s, "tables", "tables/a", "6")
	m.Fail(1, 0)
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Write(short, "tables", itemsOf("tables/a", "7")); !errors.Is(err, storetest.ErrLost) {
		t.Errorf("got %v", err)
	}
	write(t, s, "tables", "tables/a", "8")
	expect(t, s, "tables", "tables/a", "8")
}

// TestSealed: who reads the bucket sees no item, and one that was changed, or put under
// another key, is refused, as is another authority.
func TestSealed(t *testing.T) {
	m := storetest.New()
	s := openKV(t, m)
	write(t, s, "tables", "tables/a", `"confidential"`, "tables/b", `"x"`)
	var a, b int
	kept := m.Entries()
	for i, e := range kept {
		if bytes.Contains(e.Value, []byte("confidential")) {
			t.Errorf("%s is readable: %q", e.Key, e.Value)
		}
		if e.Key == "tables._tables._a" {
			a = i
		} else if e.Key == "tables._tables._b" {
			b = i
		}
	}
	kept[a].Value, kept[b].Value = kept[b].Value, kept[a].Value
	if _, err := s.Load(t.Context(), "tables"); !errors.Is(err, errSealed) {
		t.Errorf("exchanged values: %v", err)
	}
	other := own
	other.Fingerprint = "f2"
	if _, err := NewKV(t.Context(), m, other); !errors.Is(err, ErrAuthority) || !strings.Contains(err.Error(), "/data/authority") {
		t.Errorf("another authority: %v", err)
	}
	noise := make([]byte, bus.MaxPayload)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	if err := openKV(t, storetest.New()).Write(t.Context(), "tables", map[string][]byte{"tables/a": noise}); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("an item that exceeds the limit: %v", err)
	}
}

// FuzzKey: any text can be a key.
func FuzzKey(f *testing.F) {
	for _, text := range []string{"", "/", "a", "a/", "a/b/c", "=", "._", "ü\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name := bucketKey("c", text)
		if strings.ContainsFunc(name, func(r rune) bool {
			return r > 'z' || !strings.ContainsRune("_=.-", r) && (r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a')
		}) || strings.Contains(name, "..") || strings.HasSuffix(name, ".") {
			t.Errorf("%q: invalid key %q", text, name)
		}
		if back, err := itemKey(name); err != nil || back != text {
			t.Errorf("%q became %q, %v", text, back, err)
		}
		_, _ = itemKey(text)
	})
}

// TestCluster: the same suite with three nodes, one of which is killed in between.
func TestCluster(t *testing.T) {
	c := bustest.Start(t, t.TempDir())
	open := func() Store {
		s, err := bus.ConnectServer(t.Context(), bus.ServerOptions{URL: c.URL(), TLS: c.ServerTLS()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		bucket, err := s.KV(t.Context(), BucketName, bus.KVOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := bucket.Purge(context.Background(), 0); err != nil {
				t.Errorf("purge: %v", err)
			}
		})
		return openKV(t, bucket)
	}
	one, two := open(), open()
	var mu sync.Mutex
	followed, seen := map[string]string{}, make(chan struct{}, 10_000)
	ctx, cancel := context.WithCancel(t.Context())
	var follows sync.WaitGroup
	defer follows.Wait()
	defer cancel()
	follows.Go(func() {
		if err := two.Follow(ctx, "hosts", &mu, func(key string, item []byte) {
			followed[key] = string(item)
			seen <- struct{}{}
		}); err != nil {
			t.Error(err)
		}
	})
	for n := range 40 {
		if n == 20 {
			c.Kill(0)
		}
		write(t, one, "hosts", "left/"+fmt.Sprint(n), fmt.Sprint(n), "left/last", fmt.Sprint(n))
	}
	expectFollowed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(followed) == 41 && followed["left/last"] == "39"
	}
	for timeout := time.After(patience); !expectFollowed(); {
		select {
		case <-seen:
		case <-timeout:
			t.Fatalf("followed %v", followed)
		}
	}
	if got := load(t, two, "hosts"); len(got) != 41 || got["left/last"] != "39" {
		t.Errorf("after a node was killed: %v", got)
	}
	fleetConformance(t, one, two)
	write(t, one, "tables", "tables/n", "")
	expect(t, one, "tables", "tables/a", "2")
	write(t, one, "tables", "tables/a", "")
	for key := range load(t, one, "hosts") {
		write(t, one, "hosts", key, "")
	}
	c.Restart(0)
	conformance(t, one)
}

// handedOver is a lock that says when somebody wants it, and waits until they may have it.
type handedOver struct{ wanted, given chan struct{} }

func (h handedOver) Lock()   { h.wanted <- struct{}{}; <-h.given }
func (h handedOver) Unlock() {}

// TestOwnPast: a server that hears late of an item that it has written and deleted does not take
// it for what another server wrote.
func TestOwnPast(t *testing.T) {
	m := storetest.New()
	one, two := openKV(t, m), openKV(t, m)
	lock := handedOver{make(chan struct{}), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var followed []string
	ended := make(chan error, 1)
	go func() {
		ended <- two.Follow(ctx, "tables", lock, func(key string, item []byte) {
			followed = append(followed, key+" "+string(item))
			cancel()
		})
	}()
	write(t, two, "tables", "tables/own", "1")
	<-lock.wanted
	write(t, two, "tables", "tables/own", "")
	write(t, one, "tables", "tables/other", "2")
	for {
		select {
		case lock.given <- struct{}{}:
		case <-lock.wanted:
		case err := <-ended:
			if want := []string{"tables/other 2"}; err != nil || !slices.Equal(followed, want) {
				t.Errorf("followed %q, want %q: %v", followed, want, err)
			}
			return
		}
	}
}

// TestRepeat: a change is made again while another server is faster, but not for ever, and not after other errors.
func TestRepeat(t *testing.T) {
	other := errors.New("other")
	for name, row := range map[string]struct {
		results []error // of the change, the last one from then on
		load    error
		want    error
		changes int
	}{
		"at once":         {[]error{nil}, nil, nil, 1},
		"the third time":  {[]error{ErrChanged, fmt.Errorf("save: %w", ErrChanged), nil}, nil, nil, 3},
		"another error":   {[]error{ErrChanged, other}, nil, other, 2},
		"cannot load":     {[]error{ErrChanged, nil}, other, other, 1},
		"always too late": {[]error{ErrChanged}, nil, ErrChanged, attemptsMax},
	} {
		t.Run(name, func(t *testing.T) {
			changes := 0
			err := Repeat(func() error {
				changes++
				return row.results[min(changes, len(row.results))-1]
			}, func() error { return row.load })
			if !errors.Is(err, row.want) || changes != row.changes {
				t.Errorf("%d changes, %v", changes, err)
			}
		})
	}
}
