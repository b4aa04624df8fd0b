//go:build long

package dist

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tryCommands bounds the documented commands to a live delay. Their time is logged only: it depends on what else
// the machine does.
const tryCommands = 4

// documented returns the commands of a class in docs/howto/install.md; apt asks nothing.
func documented(t *testing.T, class string) string {
	t.Helper()
	text, err := os.ReadFile("docs/howto/install.md")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile("(?ms)^```sh " + class + "\n(.*?)^```$").FindSubmatch(text)
	if match == nil {
		t.Fatalf("docs/howto/install.md has no commands %q", class)
	}
	return regexp.MustCompile(`(?m)^apt (install|remove|purge) `).ReplaceAllString(strings.TrimSpace(string(match[1])), "apt $1 -qq -y ")
}

// buildPrograms builds the programs of this source as a release does, and returns the folder.
func buildPrograms(t *testing.T) string {
	t.Helper()
	built := t.TempDir()
	output(t, ".", []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", built+"/", "./cmd/pillion-agent", "./cmd/pillion")
	output(t, ".", nil, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -extldflags=-Wl,--no-export-dynamic", "-o", built+"/", "./cmd/pillion-server")
	programs, _ := filepath.Glob(built + "/*")
	for _, program := range programs {
		if err := os.Rename(program, program+"-linux-amd64"); err != nil {
			t.Fatal(err)
		}
	}
	return built
}

// packages packs the programs of this source for Debian, and returns the folder; the next
// version is in next.
func packages(t *testing.T) string {
	t.Helper()
	folder, built := t.TempDir(), buildPrograms(t)
	output(t, ".", []string{"KINDS=deb", "VERSION=1.0", "SOURCE_DATE_EPOCH=1", "OUT=" + folder}, ".ci/package", built)
	next(t, folder)
	checkReproducible(t, built, folder)
	return folder
}

// checkReproducible packs one of the programs again, in another environment.
func checkReproducible(t *testing.T, built, folder string) {
	t.Helper()
	one, again := t.TempDir(), t.TempDir()
	output(t, ".", nil, "cp", filepath.Join(built, "pillion-linux-amd64"), one)
	output(t, ".", []string{"KINDS=deb", "VERSION=1.0", "SOURCE_DATE_EPOCH=1", "OUT=" + again, "TZ=Asia/Tokyo", "TMPDIR=" + t.TempDir()}, ".ci/package", one)
	output(t, ".", nil, "cmp", filepath.Join(folder, "pillion_1.0_amd64.deb"), filepath.Join(again, "pillion_1.0_amd64.deb"))
}

// next packs the packages again, without compression, as version 1.1.
func next(t *testing.T, folder string) {
	t.Helper()
	output(t, folder, nil, "sh", "-ec", `mkdir next
for package in *.deb; do
	dpkg-deb -R "$package" tree
	sed -i 's/^Version: .*/Version: 1.1/' tree/DEBIAN/control
	dpkg-deb -Znone --root-owner-group -b tree next/ >/dev/null
	rm -r tree
done`)
}

// TestLongPackages installs, upgrades, removes and purges the Debian packages in a booted
// Debian 12, where the services run, and measures there as docs/howto/install.md says.
func TestLongPackages(t *testing.T) {
	folder := packages(t)
	noc, north := start(t, "noc", folder), start(t, "north", folder)
	output(t, ".", nil, "ip", "link", "add", "north", "netns", noc.init, "type", "veth", "peer", "name", "noc", "netns", north.init)
	noc.run("ip address add 10.99.0.1/24 dev north; ip link set north up")
	north.run("ip address add 10.99.0.2/24 dev noc; ip link set noc up")

	commands := strings.Split(documented(t, "try"), "\n")
	if len(commands) > tryCommands {
		t.Errorf("%d commands to a live delay, want at most %d", len(commands), tryCommands)
	}
	begun := time.Now()
	noc.run(strings.Join(commands[:len(commands)-1], "\n"))
	first := noc.delay(commands[len(commands)-1])
	t.Logf(`figures: {"commands": %d, "first_delay_s": %.1f}: %s`, len(commands), time.Since(begun).Seconds(), first)
	noc.run("pillion-agent lab down twohosts")

	checkInstalled(noc)
	measure(noc, north)
	upgrade(noc)
	remove(noc)
	if left := north.run("systemctl is-active pillion-agent"); left != "active" {
		t.Errorf("the agent on the other host is %s", left)
	}
}

// checkInstalled checks files, owners and modes, and what runs.
func checkInstalled(c *container) {
	c.t.Helper()
	for path, want := range map[string]string{
		"/etc/pillion/agent.env":                        "600 root:root",
		"/etc/pillion/server.env":                       "644 root:root",
		"/usr/bin/pillion-server":                       "755 root:root",
		"/run/pillion":                                  "755 root:root",
		"/var/lib/private/pillion-server":               "700 pillion-server:pillion-server",
		"/var/lib/pillion-server/admin.token":           "600 pillion-server:pillion-server",
		"/usr/share/doc/pillion-agent/copyright":        "644 root:root",
		"/usr/share/man/man1/pillion.1.gz":              "644 root:root",
		"/usr/share/man/man8/pillion-server.8.gz":       "644 root:root",
		"/usr/share/zsh/vendor-completions/_pillion":    "644 root:root",
		"/usr/share/doc/pillion/pillion.cdx.json.gz":    "644 root:root",
		"/usr/lib/systemd/system/pillion-agent.service": "644 root:root",
	} {
		if got := c.run("stat -L -c '%a %U:%G' " + path); got != want {
			c.t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	states := c.run("for s in server agent; do systemctl is-enabled pillion-$s; systemctl is-active pillion-$s || true; done")
	if want := "enabled\nactive\nenabled\ninactive"; states != want {
		c.t.Errorf("server and agent are %q, want %q", states, want)
	}
	c.run("dpkg --verify; systemd-analyze verify --man=no pillion-server.service pillion-agent.service")
	if user := c.run("ps -o user= -C pillion-server 2>/dev/null || stat -c %U /proc/$(systemctl show -P MainPID pillion-server)"); user != "pillion-server" {
		c.t.Errorf("the server runs as %s", user)
	}
}

// measure joins both hosts to the server and waits for a delay between them.
func measure(noc, north *container) {
	noc.t.Helper()
	token := noc.run("cat /var/lib/pillion-server/join.token")
	configure := strings.NewReplacer("noc.example", "10.99.0.1", "=TOKEN", "="+token).Replace(documented(noc.t, "host"))
	noc.run(configure)
	north.run(configure)
	north.run("systemd-run --quiet ping -q -i 0.05 10.99.0.1")
	noc.run("systemd-run --quiet ping -q -i 0.05 10.99.0.2")
	noc.t.Logf("between services: %s", noc.delay(documented(noc.t, "session")))
}

// upgrade installs the next version: settings stay, the server restarts before the agent, and
// the session goes on.
func upgrade(c *container) {
	c.t.Helper()
	settings := c.run("sha256sum /etc/pillion/*")
	identity := c.run("sha256sum /var/lib/pillion-agent/identity.json")
	started := "for s in server agent; do systemctl show -P ActiveEnterTimestampMonotonic pillion-$s; done"
	before := strings.Fields(c.run(started))
	c.run("dpkg -i next/*.deb")
	c.wait("both services", func() bool {
		return c.run("systemctl is-active pillion-server pillion-agent || true") == "active\nactive"
	})
	after := strings.Fields(c.run(started))
	if after[0] == before[0] || after[1] == before[1] || len(after[0]) > len(after[1]) || len(after[0]) == len(after[1]) && after[0] > after[1] {
		c.t.Errorf("server and agent started at %v before and %v after the upgrade, want the server first", before, after)
	}
	if version := c.run("dpkg-query -W -f '${Version} ' pillion pillion-agent pillion-server"); version != "1.1 1.1 1.1" {
		c.t.Errorf("versions after the upgrade: %s", version)
	}
	if now := c.run("sha256sum /etc/pillion/*"); now != settings {
		c.t.Errorf("settings changed: %s, before: %s", now, settings)
	}
	if now := c.run("sha256sum /var/lib/pillion-agent/identity.json"); now != identity {
		c.t.Error("the agent has joined again")
	}
	name := strings.Fields(c.run("pillion session list -o csv | tail -n 1 | cut -d, -f1"))[0]
	c.t.Logf("after the upgrade: %s", c.delay("pillion session watch "+name))
}

// remove removes the packages, and then what removal leaves.
func remove(c *container) {
	c.t.Helper()
	commands := strings.Split(documented(c.t, "remove"), "\n")
	kept := "ls -d /etc/pillion/agent.env /etc/pillion/server.env /var/lib/pillion-agent/identity.json /var/lib/pillion-server/archive.duckdb; getent passwd pillion pillion-server"
	c.run(commands[0])
	c.run(kept)
	c.run("! ls /usr/bin/pillion* 2>/dev/null; ! ls /proc/[0-9]*/exe -l 2>/dev/null | grep pillion")
	c.run(commands[1])
	if left := c.run("find / -xdev -iname '*pillion*' -not -path '/root/*' -not -path '/proc/*' -not -path '/var/log/*' -not -path '/var/lib/dpkg/*'; getent passwd pillion pillion-server || true"); left != "" {
		c.t.Errorf("left after purge:\n%s", left)
	}
}
