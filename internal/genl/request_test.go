package genl

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TestFind: the kernel's own family has the number that its header gives, another has an error.
func TestFind(t *testing.T) {
	if id, err := find(nl.GENL_CTRL_NAME); err != nil || id != nl.GENL_ID_CTRL {
		t.Errorf("number of %s: %d, %v; want %d", nl.GENL_CTRL_NAME, id, err, nl.GENL_ID_CTRL)
	}
	if _, err := NewRequest("none-such", 1, 1, 0); !errors.Is(err, unix.ENOENT) {
		t.Errorf("unknown family: %v", err)
	}
	if _, err := Attributes([]byte{1, 2, 3}); err == nil {
		t.Error("an answer of 3 bytes was read")
	}
}
