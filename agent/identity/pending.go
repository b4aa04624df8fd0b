package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pillion.dev/internal/store"
)

// pendingName is the file of the key for which a certificate is being requested. It is
// written before the request, so that a request whose answer was lost, or could not be
// stored, is repeated with the same key: the server recognises it by that.
const pendingName = "identity.next.json"

type pending struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	Key    string `json:"key"` // PEM
}

// prepare returns the key, PEM, and the certificate request, DER, with which to ask the
// server for a certificate: from an earlier request that has no result yet, or new
// ones. The key is on disk when it returns.
func prepare(folder, name, server, current string) (key string, request []byte, err error) {
	path := filepath.Join(folder, pendingName)
	var p pending
	// If the file is damaged, the earlier request is not repeated: a new key is generated.
	found, err := store.Load(path, &p)
	if err == nil && found && p.Name == name && p.Server == server && p.Key != current {
		if request, err = newRequest(name, p.Key); err == nil {
			return p.Key, request, nil
		}
	}
	if key, err = generateKey(); err != nil {
		return "", nil, err
	}
	if request, err = newRequest(name, key); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, err
	}
	if err := store.Save(path, pending{name, server, key}, 0o600); err != nil {
		return "", nil, fmt.Errorf("the server was not asked: %w", err)
	}
	return key, request, nil
}

// finish deletes the file of the request, once its result is stored. If that fails, prepare finds that the key is
// in use.
func finish(folder string) error {
	err := os.Remove(filepath.Join(folder, pendingName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// generateKey generates a key, PEM.
func generateKey() (string, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	return encodePEM("PRIVATE KEY", der), err
}

// newRequest returns a certificate request, DER, for a key, PEM.
func newRequest(name, key string) ([]byte, error) {
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, errors.New("key: not PEM")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, private)
}
