package archive

import (
	"errors"
	"strings"
	"testing"
)

// failed is an archive of a package whose Open returns a pointer.
type failed struct{ Archive }

func TestOpen(t *testing.T) {
	errOpen := errors.New("opened")
	var location string
	var options Options
	Register("test", func(l string, o Options) (Archive, error) {
		location, options = l, o
		return (*failed)(nil), errOpen
	})
	for _, test := range []struct{ url, want string }{
		{"test:", ""}, {"test", ""}, {"test:/a/b", "/a/b"}, {"test://host:1/x?y=z", "//host:1/x?y=z"},
	} {
		if opened, err := Open(test.url, Options{Memory: 7}); opened != nil || !errors.Is(err, errOpen) || location != test.want || options.Memory != 7 {
			t.Errorf("%s: location %q, %+v, %v; want %q", test.url, location, options, err, test.want)
		}
	}
	for _, url := range []string{"", "none:", "/a/b", "Test:"} {
		if _, err := Open(url, Options{}); err == nil || !strings.Contains(err.Error(), "use test:") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
