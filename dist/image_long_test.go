//go:build long

package dist

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
)

// images builds the images of this source, checks that they are reproducible, and returns their
// folder and that of the programs.
func images(t *testing.T) (folder, built string) {
	t.Helper()
	folder, built = t.TempDir(), buildPrograms(t)
	fixed := []string{"VERSION=1.0", "REVISION=1234", "SOURCE_DATE_EPOCH=1"}
	t.Log(output(t, ".", append(fixed, "OUT="+folder), ".ci/image", built))
	one, again := t.TempDir(), t.TempDir()
	output(t, ".", nil, "cp", filepath.Join(built, "pillion-agent-linux-amd64"), one)
	output(t, ".", append(fixed, "OUT="+again, "TZ=Asia/Tokyo", "TMPDIR="+t.TempDir()), ".ci/image", one)
	const name = "pillion-agent-1.0-linux-amd64.tar"
	output(t, ".", nil, "cmp", filepath.Join(folder, name), filepath.Join(again, name))
	return folder, built
}

// imageConfig is what an image says of itself.
type imageConfig struct {
	Config struct {
		User   string
		Labels map[string]string
	}
	Created time.Time
}

// checkImage checks user and labels of an image, and that all times are the commit's.
func checkImage(t *testing.T, name, path string) {
	t.Helper()
	blobs := map[string][]byte{}
	archive, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	packed := tar.NewReader(archive)
	for {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		if blobs[header.Name], err = io.ReadAll(packed); err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
	}
	var manifest []struct {
		Config string
		Layers []string
	}
	var config imageConfig
	if err := errors.Join(json.Unmarshal(blobs["manifest.json"], &manifest), json.Unmarshal(blobs[manifest[0].Config], &config)); err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	user := map[string]string{"pillion-agent": "0:0", "pillion-server": "60848:60848"}[name]
	if config.Config.User != user || !config.Created.Equal(time.Unix(1, 0)) {
		t.Errorf("%s runs as %q and was created at %s, want %q and %s", name, config.Config.User, config.Created, user, time.Unix(1, 0))
	}
	for label, want := range map[string]string{"version": "1.0", "revision": "1234", "licenses": "Apache-2.0", "created": "1970-01-01T00:00:01Z"} {
		if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("%s: label %s is %q, want %q", name, label, got, want)
		}
	}
	for _, l := range manifest[0].Layers {
		checkTimes(t, blobs[l])
	}
}

// checkTimes checks that the files of a layer have the commit's time.
func checkTimes(t *testing.T, blob []byte) {
	t.Helper()
	plain, err := gzip.NewReader(strings.NewReader(string(blob)))
	if err != nil {
		t.Fatal(err)
	}
	for packed := tar.NewReader(plain); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(time.Unix(1, 0)) {
			t.Errorf("%s is of %s", header.Name, header.ModTime)
		}
	}
}

// podman runs containers with images and volumes in a folder of its own.
type podman struct {
	t      *testing.T
	folder string
}

// newPodman loads the images of a folder.
func newPodman(t *testing.T, images string) *podman {
	t.Helper()
	p := &podman{t: t, folder: t.TempDir()}
	var open syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &open); err != nil {
		t.Fatal(err)
	}
	// Limits of processes are set at all only because podman's defaults exceed those of this
	// process. Containers stay in the cgroup of the test.
	for file, text := range map[string]string{
		"containers.conf": fmt.Sprintf("[containers]\ncgroups=\"disabled\"\ndefault_ulimits=[\"nofile=%d:%[1]d\",\"nproc=4096:4096\"]\n"+
			"[engine]\nruntime=\"crun\"\ncgroup_manager=\"cgroupfs\"\nevents_logger=\"file\"\nlock_type=\"file\"\n"+
			"tmp_dir=\"%[2]s/tmp\"\nvolume_path=\"%[2]s/volumes\"\nstatic_dir=\"%[2]s/static\"\n", open.Max, p.folder),
		"storage.conf": fmt.Sprintf("[storage]\ndriver=\"overlay\"\ngraphroot=\"%[1]s/root\"\nrunroot=\"%[1]s/run\"\n", p.folder),
	} {
		if err := os.WriteFile(filepath.Join(p.folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host := namespace.New(t)
	t.Cleanup(func() {
		const clean = "podman rm --all --force --time 1; podman volume prune --force; podman rmi --all --force"
		if said, err := p.command(context.Background(), host, clean).CombinedOutput(); err != nil {
			t.Errorf("remove containers and images: %v: %s", err, said)
		}
	})
	p.run(host, strings.NewReplacer("bin/images", images, "VERSION", "1.0").Replace(documented(t, "container-load")))
	return p
}

// command is a shell script in a network namespace, where the only cgroup hierarchy is that of
// version 2: crun refuses a host that mounts both.
func (p *podman) command(ctx context.Context, host, script string) *exec.Cmd {
	command := exec.CommandContext(ctx, "nsenter", "--net="+netns.Path(host), "unshare", "--mount", "sh", "-euc",
		"mount -t sysfs sysfs /sys; mount -t cgroup2 cgroup2 /sys/fs/cgroup; "+script)
	command.Env = append(os.Environ(), "CONTAINERS_CONF="+p.folder+"/containers.conf", "CONTAINERS_STORAGE_CONF="+p.folder+"/storage.conf",
		"PILLION_CA="+p.folder+"/volumes/pillion-server/_data/ca.crt")
	command.WaitDelay = time.Second
	return command
}

func (p *podman) run(host, script string) string {
	p.t.Helper()
	said, err := p.command(p.t.Context(), host, script).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %s: %v: %s", host, script, err, said)
	}
	return strings.TrimSpace(string(said))
}

// start runs a documented command until the program in the container prints that it is ready.
func (p *podman) start(host, name, script string) {
	p.t.Helper()
	p.run(host, script)
	p.wait(host, name, func(said string, running bool) bool {
		if !running {
			p.t.Fatalf("%s has ended: %s", name, said)
		}
		return slices.Contains(strings.Split(said, "\n"), "ready")
	})
}

// end runs a documented command until the program in the container ends, and returns its output.
func (p *podman) end(host, name, script string) string {
	p.t.Helper()
	p.run(host, script)
	return p.wait(host, name, func(_ string, running bool) bool { return !running })
}

// wait waits for a state of a container and returns its output. Podman's own wait takes 20 s where
// there is no journal.
func (p *podman) wait(host, name string, ready func(said string, running bool) bool) string {
	p.t.Helper()
	for end := time.Now().Add(hang.Limit); ; time.Sleep(200 * time.Millisecond) {
		running := p.run(host, "podman inspect -f '{{.State.Running}}' "+name) == "true"
		said := p.run(host, "podman logs "+name+" 2>&1")
		if ready(said, running) {
			return said
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: wait for its state: a minute has passed: %s", name, said)
		}
	}
}

// TestLongContainers runs the images as docs/howto/install.md says: a server without privileges, and
// agents with the listed capabilities, which measure the delay between two namespaces. Without a
// capability an agent names it, or its doctor does.
func TestLongContainers(t *testing.T) {
	folder, built := images(t)
	for _, name := range []string{"pillion-agent", "pillion-server"} {
		checkImage(t, name, filepath.Join(folder, name+"-1.0-linux-amd64.tar"))
	}
	noc, north := namespace.New(t), namespace.New(t)
	output(t, ".", nil, "ip", "link", "add", "north", "netns", noc, "type", "veth", "peer", "name", "noc", "netns", north)
	for host, lines := range map[string][]string{
		noc:   {"address add 10.99.0.1/24 dev north", "link set north up"},
		north: {"address add 10.99.0.2/24 dev noc", "link set noc up"},
	} {
		if err := netns.IP(host, lines...); err != nil {
			t.Fatal(err)
		}
	}
	p := newPodman(t, folder)
	here := strings.NewReplacer("noc.example", "10.99.0.1", "VERSION", "1.0", "--restart always ", "",
		// Docker and Kubernetes mount nothing writable into a read-only root.
		"--read-only ", "--read-only --read-only-tmpfs=false ")
	p.start(noc, "pillion-server", here.Replace(documented(t, "container-server")))
	tokens := strings.Fields(p.run(noc, documented(t, "container-token")))
	agent := func(name string) string {
		locks := p.folder + "/locks-" + name
		return strings.NewReplacer("=TOKEN", "="+tokens[0], "--name pillion-agent", "--name "+name, "-v pillion-agent:", "-v "+name+":",
			"mkdir -p /run/pillion", "mkdir -p "+locks, "-v /run/pillion:", "-v "+locks+":").Replace(here.Replace(documented(t, "container-agent"))) +
			" run --name " + name
	}
	p.start(noc, "noc", agent("noc"))
	// As in Kubernetes: a directory of the host, which belongs to root at first.
	node := t.TempDir()
	p.start(north, "north", strings.NewReplacer("-v north:", "-v "+node+":", "--cap-add KILL", "--cap-add KILL --cap-add CHOWN").Replace(agent("north")))
	p.checkUsers(noc)
	p.measure(noc, north, "env PILLION_TOKEN="+tokens[1]+" "+built+"/pillion-linux-amd64 --server 10.99.0.1:8470 ")
	for _, capability := range []string{"BPF", "PERFMON", "NET_ADMIN", "SETUID", "SETGID", "KILL"} {
		name := "without-" + capability
		said := p.end(north, name, strings.Replace(agent(name), "--cap-add "+capability+" ", "", 1))
		if !strings.HasSuffix(said, "missing capability: CAP_"+capability+"\nhint: grant it: systemd by CapabilityBoundingSet, container runtimes by --cap-add; docs/reference/agent.md, Privileges") {
			t.Errorf("agent without CAP_%s: %s", capability, said)
		}
	}
	const name = "without-NET_RAW"
	doctor := strings.NewReplacer("--cap-add NET_RAW ", "", " run --name "+name, " doctor").Replace(agent(name))
	if said := p.end(north, name, doctor); !strings.Contains(said, "lacks CAP_NET_RAW") {
		t.Errorf("doctor without CAP_NET_RAW: %s", said)
	}
}

// checkUsers checks users and capabilities of the processes in the containers.
func (p *podman) checkUsers(host string) {
	p.t.Helper()
	const none = "0000000000000000"
	for name, want := range map[string]string{
		"pillion-server": "60848 " + none,
		"noc":            fmt.Sprintf("0 %016x", 1<<5|1<<12|1<<13|1<<23|1<<38|1<<39), // KILL NET_ADMIN NET_RAW SYS_NICE PERFMON BPF
	} {
		pid := p.run(host, "podman inspect -f '{{.State.Pid}}' "+name)
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			p.t.Fatal(err)
		}
		var got [2]string
		for line := range strings.Lines(string(status)) {
			switch words := strings.Fields(line); words[0] {
			case "Uid:":
				got[0] = words[1]
			case "CapEff:":
				got[1] = words[1]
			}
		}
		if strings.Join(got[:], " ") != want {
			p.t.Errorf("%s has user and capabilities %v, want %s", name, got, want)
		}
	}
}

// measure creates a session and waits until it shows a delay, while both hosts ping each other.
func (p *podman) measure(noc, north, client string) {
	p.t.Helper()
	ctx, stop := context.WithCancel(p.t.Context())
	defer stop()
	for host, peer := range map[string]string{noc: "10.99.0.2", north: "10.99.0.1"} {
		ping := p.command(ctx, host, "exec ping -q -i 0.05 "+peer)
		if err := ping.Start(); err != nil {
			p.t.Fatal(err)
		}
		defer func() { stop(); _ = ping.Wait() }()
	}
	p.t.Logf("between containers: %s", p.run(noc, client+"session create --from noc --to north; timeout -s INT 60 "+client+
		"session watch $("+client+"session list -o csv | tail -n 1 | cut -d, -f1) 2>&1 | grep -m 1 ' p50 '"))
	if rows := p.run(noc, client+`query -o csv "SELECT count(*) > 0 AS some FROM flows"`); !strings.HasSuffix(rows, "true") {
		p.t.Errorf("a query in the container answers %q", rows)
	}
}
