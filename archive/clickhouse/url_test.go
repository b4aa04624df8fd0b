package clickhouse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := parse("//me@a:1,b/fleet?cluster=c&quorum=3&password_file=" + file)
	if err != nil || strings.Join(l.hosts, " ") != "a:1 b:9000" || l.user != "me" || l.password != "secret" || l.database != "fleet" || l.cluster != "c" || l.quorum != 3 || l.tls != nil {
		t.Errorf("got %+v, %v", l, err)
	}
	if l, err = parse("//h?secure=true"); err != nil || l.hosts[0] != "h:9440" || l.database != defaultDatabase || l.user != defaultUser || l.tls == nil {
		t.Errorf("got %+v, %v", l, err)
	}
	for _, bad := range []string{"", "//", "//a,/x", "//me:word@h/x", "//h/X-y", "//h/x?clusters=1", "//h?quorum=0", "//h?secure=maybe", "//h?password_file=/none", "//h?ca=/none", "//h/%"} {
		if _, err := parse(bad); err == nil || strings.Contains(err.Error(), "word@") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("//me@a:1,b/fleet?cluster=c&quorum=3")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := parse(text); err == nil && len(l.hosts) == 0 {
			t.Error("no host")
		}
	})
}
