//go:build long

package dist

import (
	"path/filepath"
	"strings"
	"testing"
)

// rpmCommand runs the rpm of this host in the container, whose Debian has none, with its libraries.
const rpmCommand = "RPM_CONFIGDIR=/root/rpm/config rpm/lib/ld-linux-x86-64.so.2 --library-path rpm/lib rpm/rpm "

// rpms packs the programs of this source for rpm as version 1.0, and as 1.1 in next, and returns the folder,
// which also has rpm itself.
func rpms(t *testing.T) string {
	t.Helper()
	folder, built := t.TempDir(), buildPrograms(t)
	for version, out := range map[string]string{"1.0": "first", "1.1": "next"} {
		output(t, ".", []string{"KINDS=rpm", "VERSION=" + version, "SOURCE_DATE_EPOCH=1", "OUT=" + filepath.Join(folder, out)}, ".ci/package", built)
	}
	output(t, folder, nil, "sh", "-ec", `mkdir -p rpm/lib
cp -L "$(command -v rpm)" rpm/
cp -RL /usr/lib/rpm rpm/config
ldd rpm/rpm | grep -o '/[^ ]*' | xargs -I{} cp -L {} rpm/lib/`)
	return folder
}

// TestLongRPM installs, upgrades and erases the packages for rpm in a booted system, where their scripts find
// systemd. Dependencies are not checked: the packages of this system are not rpm's.
func TestLongRPM(t *testing.T) {
	c := start(t, "rpm", rpms(t))
	c.run(rpmCommand + "-i --nodeps first/*.rpm")
	checkPackages(c, "1.0 1.0 1.0")
	for path, want := range map[string]string{
		"/etc/pillion/agent.env":                         "600 root:root",
		"/etc/pillion/server.env":                        "644 root:root",
		"/run/pillion":                                   "755 root:root",
		"/usr/bin/pillion":                               "755 root:root",
		"/usr/bin/pillion-agent":                         "755 root:root",
		"/usr/bin/pillion-server":                        "755 root:root",
		"/usr/lib/sysusers.d/pillion-server.conf":        "644 root:root",
		"/usr/lib/systemd/system/pillion-agent.service":  "644 root:root",
		"/usr/share/man/man8/pillion-server.8.gz":        "644 root:root",
		"/usr/share/zsh/site-functions/_pillion":         "644 root:root",
		"/usr/share/bash-completion/completions/pillion": "644 root:root",
		"/usr/share/doc/pillion-agent/copyright":         "644 root:root",
	} {
		if got := c.run("stat -L -c '%a %U:%G' " + path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	// An installation starts nothing, and the preset of this system enables everything.
	states := "for s in server agent; do systemctl is-enabled pillion-$s; systemctl is-active pillion-$s || true; done"
	if got, want := c.run(states), "enabled\ninactive\nenabled\ninactive"; got != want {
		t.Errorf("server and agent are %q, want %q", got, want)
	}
	upgradeRPM(c)
	eraseRPM(c)
}

// checkPackages checks that rpm finds all three packages, in this version and unchanged.
func checkPackages(c *container, versions string) {
	c.t.Helper()
	if got := c.run(rpmCommand + "-q --qf '%{VERSION} ' pillion pillion-agent pillion-server"); got != versions {
		c.t.Errorf("versions %q, want %q", got, versions)
	}
	if got := c.run(rpmCommand + "-V --nodeps --noconfig pillion pillion-agent pillion-server"); got != "" {
		c.t.Errorf("rpm finds changes:\n%s", got)
	}
}

const rpmNote = "# changed by the administrator"

// upgradeRPM installs the next version while the server runs: it restarts, and settings stay.
func upgradeRPM(c *container) {
	c.t.Helper()
	c.run("echo '" + rpmNote + "' >> /etc/pillion/server.env; systemctl start pillion-server")
	before := c.run("systemctl show -P MainPID pillion-server")
	c.run(rpmCommand + "-U --nodeps next/*.rpm")
	checkPackages(c, "1.1 1.1 1.1")
	c.wait("the new server", func() bool {
		return c.run("systemctl is-active pillion-server || true") == "active" && c.run("systemctl show -P MainPID pillion-server") != before
	})
	if got := c.run("tail -n 1 /etc/pillion/server.env; ls /etc/pillion"); got != rpmNote+"\nagent.env\nserver.env" {
		c.t.Errorf("settings after the upgrade: %s", got)
	}
	if got := c.run("systemctl is-active pillion-agent || true; systemctl is-enabled pillion-agent"); got != "inactive\nenabled" {
		c.t.Errorf("after the upgrade the agent is %q", got)
	}
}

// eraseRPM erases the packages: programs end and are gone, data, users and changed settings stay.
func eraseRPM(c *container) {
	c.t.Helper()
	c.run(rpmCommand + "-e pillion pillion-agent pillion-server")
	c.run("! ls /usr/bin/pillion* 2>/dev/null; ! ls -l /proc/[0-9]*/exe 2>/dev/null | grep pillion; ! ls /etc/systemd/system/*/pillion* 2>/dev/null")
	c.run("ls -d /var/lib/pillion-server/archive.duckdb; getent passwd pillion pillion-server")
	if got := c.run("tail -n 1 /etc/pillion/server.env.rpmsave; ls /etc/pillion"); strings.TrimSpace(got) != rpmNote+"\nserver.env.rpmsave" {
		c.t.Errorf("settings after the packages are erased: %s", got)
	}
}
