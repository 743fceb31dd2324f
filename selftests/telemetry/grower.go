// SPDX-License-Identifier: GPL-2.0-only

// As grower.c, in Go: grower_go MEGABYTES SECONDS.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

var kept [][]byte

func anonymous() uint64 {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "RssAnon:") {
			kilobytes, _ := strconv.ParseUint(strings.Fields(line)[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

//go:noinline
func touchMost(at []byte) {
	for i := 0; i < len(at); i += 4096 {
		at[i] = 1
	}
}

//go:noinline
func touchSome(at []byte) {
	for i := 0; i < len(at); i += 4096 {
		at[i] = 1
	}
}

func main() {
	megabytes, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.Atoi(os.Args[2])
	before := anonymous()
	for i := 0; i < megabytes/8; i++ {
		at := make([]byte, 8<<20)
		kept = append(kept, at)
		touchMost(at[:6<<20])
		touchSome(at[6<<20:])
		time.Sleep(time.Duration(seconds) * time.Second / time.Duration(megabytes/8))
	}
	fmt.Println(anonymous() - before)
}
