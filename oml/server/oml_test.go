package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	files "pillion.dev/internal/store"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
	"pillion.dev/server/store"
)

// sink accepts batches and has no rows to read.
type sink struct {
	mu   sync.Mutex
	rows map[string][]string
}

func (s *sink) Put(schema *measure.Schema, r arrow.RecordBatch, done func(error)) {
	s.mu.Lock()
	for i := range int(r.NumRows()) {
		var words []string
		for _, column := range r.Columns() {
			words = append(words, strings.Clone(column.ValueStr(i)))
		}
		s.rows[schema.Name] = append(s.rows[schema.Name], strings.Join(words[1:], "|"))
	}
	s.mu.Unlock()
	done(nil)
}

func (s *sink) Export(context.Context, archive.Export, func(arrow.RecordBatch) error) error {
	return fmt.Errorf("read: %w", archive.ErrUnknown)
}

func (s *sink) Highest(context.Context, string, string, map[string]string) (int64, error) {
	return 0, fmt.Errorf("read: %w", archive.ErrUnknown)
}

func open(t *testing.T, folder string) (*Backend, *sink) {
	t.Helper()
	s := &sink{rows: map[string][]string{}}
	k, err := New(store.NewFiles(folder), s, s, Quota{}, wall{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k, s
}

func schemaOf(t *testing.T, text string) omsp.Schema {
	t.Helper()
	s, err := omsp.ParseSchema(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 200)
	domains := []string{"a", "a_b", "A", "../x", "..%2fx", `x"; DROP TABLE oml_tables; --`, "x'y", "ünïcode", "", " ", long, long + "2", "\x00", "日本", "a\ufffdb", "default"}
	tables := []string{"1 t n:int32", "2 b_t n:int32", "3 T n:int32", "4 " + long + " n:int32", "5 t n:int64", "6 _ n:int32", "7 select n:int32"}
	folder := t.TempDir()
	k, _ := open(t, folder)
	made := map[string]string{}
	seen := map[string]bool{}
	for _, domain := range domains {
		if _, err := k.Start(domain, 7); err != nil {
			t.Fatal(err)
		}
		for _, text := range tables {
			got, err := k.Table(domain, schemaOf(t, text))
			if err != nil {
				t.Fatalf("%q, %.30q: %v", domain, text, err)
			}
			if name := got.Schema.Name; seen[name] || !measure.ValidName(name) || len(name) > streamBytes || !strings.HasPrefix(name, "oml_") {
				t.Errorf("%q, %.30q: stream %q", domain, text, name)
			}
			seen[got.Schema.Name] = true
			made[domain+"\x00"+text] = got.Name + " " + got.Schema.Name
			if strings.HasPrefix(text, "5 ") && got.Name != "t_2" {
				t.Errorf("%q: the other t is called %q", domain, got.Name)
			}
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 || entries[0].Name() != "oml.json" || entries[1].Name() != "oml.json.previous" {
		t.Errorf("files %v, %v", entries, err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, folder)
	defer again.Close()
	for _, domain := range domains {
		if start, err := again.Start(domain, 9); err != nil || start != 7 {
			t.Errorf("%q starts at %d, %v", domain, start, err)
		}
		for _, text := range tables {
			got, err := again.Table(domain, schemaOf(t, "9"+text[1:])) // the index is the client's own
			if want := made[domain+"\x00"+text]; err != nil || got.Name+" "+got.Schema.Name != want {
				t.Errorf("%q, %.30q: %q %q after reading it again, want %q (%v)", domain, text, got.Name, got.Schema.Name, want, err)
			}
		}
	}
}

// TestNameThatIsNotUTF8: JSON would not preserve it.
func TestNameThatIsNotUTF8(t *testing.T) {
	k, _ := open(t, t.TempDir())
	defer k.Close()
	k.Start("a\xffb", 7)
	k.Start("a\ufffdb", 8)
	if len(k.catalog.Domains) != 1 || k.catalog.Domains["a\ufffdb"].Start != 7 {
		t.Errorf("domains %v", k.catalog.Domains)
	}
}

// TestNamesThatCollide: no choice of names makes two tables share a stream.
func TestNamesThatCollide(t *testing.T) {
	k, _ := open(t, t.TempDir())
	defer k.Close()
	first, err := k.Table("d", schemaOf(t, "1 t n:int32"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := k.Table("d", schemaOf(t, "1 T n:int32"))
	if err != nil {
		t.Fatal(err)
	}
	// This name is that of a generated stream.
	third, err := k.Table("d", schemaOf(t, "1 "+strings.TrimPrefix(second.Schema.Name, "oml_d_")+" n:int32"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := first.Schema.Name, second.Schema.Name, third.Schema.Name; a == b || b == c || a == c {
		t.Errorf("streams %s, %s, %s", a, b, c)
	}
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 2000)
	wide := "1 wide"
	for n := range 255 {
		wide += fmt.Sprintf(" f%d:int32", n)
	}
	folder := t.TempDir()
	k, _ := open(t, folder)
	defer k.Close()
	for name, text := range map[string]string{"name": "1 " + long + " n:int32", "field": "1 t " + long + ":int32", "fields": wide} {
		if _, err := k.Table("d", schemaOf(t, text)); err == nil || len(err.Error()) > 500 {
			t.Errorf("%s: %.600v", name, err)
		}
	}
	if _, err := k.Start(long, 1); err == nil {
		t.Error("a domain with a name of 2000 bytes was accepted")
	}
	for n := range tablesMax {
		k.catalog.Domains["d"].Tables = append(k.catalog.Domains["d"].Tables, entry{Name: fmt.Sprint("t", n), Stream: fmt.Sprint("oml_d_t", n), Schema: "0 x n:int32"})
	}
	if _, err := k.Table("d", schemaOf(t, "1 more n:int32")); err == nil {
		t.Error("a table beyond the limit was accepted")
	}
	for n := len(k.catalog.Domains); n < domainsMax; n++ {
		k.catalog.Domains[fmt.Sprint("d", n)] = &domain{}
	}
	if _, err := k.Start("more", 1); err == nil {
		t.Error("a domain beyond the limit was accepted")
	}
	if start, err := k.Start("d", 5); err != nil || start != 5 {
		t.Errorf("a known domain: %d, %v", start, err)
	}
}

// TestTimeBase: the start of the first client is the time base of its domain.
func TestTimeBase(t *testing.T) {
	k, _ := open(t, t.TempDir())
	defer k.Close()
	for _, step := range []struct {
		domain      string
		start, want int64
	}{{"d", 100, 100}, {"d", 90, 100}, {"e", 90, 90}, {"d", 110, 100}} {
		if got, err := k.Start(step.domain, step.start); err != nil || got != step.want {
			t.Errorf("%+v: %d, %v", step, got, err)
		}
	}
}

func TestTablesAreAnnounced(t *testing.T) {
	folder := t.TempDir()
	k, s := open(t, folder)
	k.Start("My Domain", 77)
	k.Table("My Domain", schemaOf(t, "4 App_T n:int32 Name:string"))
	k.Table("My Domain", schemaOf(t, "4 App_T n:int32 Name:string"))
	k.Ended(collect.Connection{Begun: time.Unix(1, 0), Ended: time.Unix(2, 0), Domain: "My Domain", Sender: "s", Tuples: 5, Gaps: 1, Refused: 2, Session: 3, Reason: "r"})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	want := "My Domain|App_T|oml_my_domain_app_t|0 App_T n:int32 Name:string|77"
	if got := s.rows[Tables.Name]; len(got) != 1 || got[0] != want {
		t.Errorf("tables %q, want %q", got, want)
	}
	if got := s.rows[Connections.Name]; len(got) != 1 || !strings.HasSuffix(got[0], "|My Domain|s|||3|5|0|1|0|0|2|r") {
		t.Errorf("connections %q", got)
	}
	// An archive without the row gets it again.
	k, s = open(t, folder)
	k.Close()
	if got := s.rows[Tables.Name]; len(got) != 1 || got[0] != want {
		t.Errorf("tables after a restart %q", got)
	}
}

func TestInvalidCatalog(t *testing.T) {
	folder := t.TempDir()
	for _, text := range []string{"", "{", `{"domains": 5}`, "\x00"} {
		if err := os.WriteFile(filepath.Join(folder, "oml.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &sink{rows: map[string][]string{}}
		k, err := New(store.NewFiles(folder), s, s, Quota{}, wall{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if said := files.Notices(folder); len(said) != 1 || !strings.Contains(said[0], "oml.json is damaged and set aside") || len(k.catalog.Domains) != 0 {
			t.Errorf("%q: said %q, domains %v", text, said, k.catalog.Domains)
		}
		k.Close()
	}
}

// wall is a Clock that nobody sets.
type wall struct{}

func (wall) Now() time.Time    { return time.Now() }
func (wall) Cutoff() time.Time { return time.Now() }
