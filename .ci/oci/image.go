package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// program describes the image of a program.
type program struct {
	name, title, description string
	// user is whom the program runs as; root has only the capabilities that the runtime grants.
	user   string
	ports  []string
	volume string
	system func(program string, platform v1.Platform) ([]file, error)
}

// Users are numbers that neither distributions nor systemd assign.
const (
	agentUser  = 60847 // the unprivileged part, see agent/confine
	serverUser = 60848
)

const passwd = "root:x:0:0:root:/:/sbin/nologin\n" +
	"nobody:x:65534:65534:nobody:/:/sbin/nologin\n"

var platforms = map[string]v1.Platform{
	"amd64": {Architecture: "amd64"},
	"arm64": {Architecture: "arm64"},
	"armv7": {Architecture: "arm", Variant: "v7"},
}

var programs = []program{
	{
		name: "pillion-agent", title: "Pillion agent", user: "0:0", volume: "/var/lib/pillion",
		description: "Measures one-way delay, loss and reordering of a host's packets with eBPF.",
		system:      agentSystem,
	},
	{
		name: "pillion-server", title: "Pillion server", user: fmt.Sprintf("%d:%[1]d", serverUser),
		description: "Runs the measurements of Pillion's agents, archives the results, serves API and page.",
		ports:       []string{"8470/tcp", "8471/tcp"}, volume: "/var/lib/pillion-server",
		system: serverSystem,
	},
}

// image builds the image of a program file and writes it into an archive.
func (b build) image(p program, path string, platform v1.Platform, out string) error {
	system, err := p.system(path, platform)
	if err != nil {
		return err
	}
	below, err := layer(b.created, system)
	if err != nil {
		return err
	}
	above, err := layer(b.created, []file{folder("usr", 0o755), folder("usr/bin", 0o755), {path: "usr/bin/" + p.name, mode: 0o755, from: path}})
	if err != nil {
		return err
	}
	history := func(what string) v1.History { return v1.History{Created: v1.Time{Time: b.created}, CreatedBy: what} }
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: below, History: history("system files")}, mutate.Addendum{Layer: above, History: history(p.name + " " + b.version)})
	if err != nil {
		return fmt.Errorf("append layers: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	config = config.DeepCopy()
	config.Created, config.Architecture, config.Variant, config.OS = v1.Time{Time: b.created}, platform.Architecture, platform.Variant, platform.OS
	config.Config = v1.Config{
		User: p.user, Entrypoint: []string{"/usr/bin/" + p.name}, Cmd: []string{"run"}, WorkingDir: "/",
		Env: []string{"PATH=/usr/bin"}, Labels: b.labels(p), StopSignal: "SIGTERM",
		Volumes: map[string]struct{}{p.volume: {}},
	}
	if len(p.ports) > 0 {
		config.Config.ExposedPorts = map[string]struct{}{}
		for _, port := range p.ports {
			config.Config.ExposedPorts[port] = struct{}{}
		}
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return fmt.Errorf("set configuration: %w", err)
	}
	if err := archive(image, platform, b.created, maps.Clone(config.Config.Labels), p.name+":"+b.version, out); err != nil {
		return err
	}
	size, err := unpacked(below, above)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MB unpacked\n", filepath.Base(out), float64(size)/1e6)
	return nil
}

// labels returns the labels that OCI defines for images.
func (b build) labels(p program) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": p.title, prefix + "description": p.description,
		prefix + "version": b.version, prefix + "revision": b.revision, prefix + "created": b.created.Format(time.RFC3339),
		prefix + "url": "https://pillion.dev", prefix + "documentation": "https://pillion.dev", prefix + "vendor": "Pillion",
		prefix + "licenses": "Apache-2.0",
	}
}
