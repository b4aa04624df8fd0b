//go:build long

package router

import "testing"

func TestLongProfilesComeAndGoUnderTraffic(t *testing.T) { profilesComeAndGo(t, 50) }
