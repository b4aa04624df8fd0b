package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
)

// docker is an entry of manifest.json, by which versions of Docker load an archive that do not
// read the layout of OCI.
type docker struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// archive writes an image, named as tag, in the layout of OCI, with Docker's manifest beside it.
func archive(image v1.Image, platform v1.Platform, created time.Time, labels map[string]string, tag, out string) error {
	scratch, err := os.MkdirTemp("", "pillion-oci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	path, err := layout.Write(scratch, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	// What containerd and podman call the image.
	labels["io.containerd.image.name"] = "localhost/" + tag
	labels["org.opencontainers.image.ref.name"] = "localhost/" + tag
	if err := path.ReplaceImage(image, match.Name(tag), layout.WithAnnotations(labels), layout.WithPlatform(platform)); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	entry := docker{Config: blob(manifest.Config.Digest), RepoTags: []string{"localhost/" + tag}}
	for _, l := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(l.Digest))
	}
	text, err := json.Marshal([]docker{entry})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "manifest.json"), text, 0o644); err != nil {
		return err
	}
	return pack(scratch, created, out)
}

func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// pack writes the files of a folder, in the order of their names, into an archive.
func pack(folder string, created time.Time, out string) (err error) {
	archive, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	packed := tar.NewWriter(archive)
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: created, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := packed.WriteHeader(header); err != nil {
			return err
		}
		_, err = packed.Write(content)
		return err
	})
	if err == nil {
		err = packed.Close()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	return nil
}
