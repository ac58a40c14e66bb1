package session

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// peerPID returns the id of the process at the other end of a loopback
// connection, or 0 if it is unknown. It is needed because SDKs do not always
// send a process id. It reads the system's tables of sockets and the open files
// of processes of the same user.
func peerPID(from net.Addr) int {
	addr, ok := from.(*net.TCPAddr)
	if !ok {
		return 0
	}
	inode := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if text, err := os.ReadFile(table); err == nil {
			if inode = socketOf(string(text), addr); inode != "" {
				break
			}
		}
	}
	if inode == "" {
		return 0
	}
	return ownerOf("socket:[" + inode + "]")
}

// socketOf returns the socket with a local address in such a table.
func socketOf(table string, addr *net.TCPAddr) string {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 {
			continue
		}
		if ip, port, ok := parseAddress(fields[1]); ok && port == addr.Port && ip.Equal(addr.IP) && fields[9] != "0" {
			return fields[9]
		}
	}
	return ""
}

// parseAddress parses an address of the tables: words in the machine's byte
// order, in hexadecimal.
func parseAddress(text string) (net.IP, int, bool) {
	host, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	n, bad := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || bad != nil || len(raw) != net.IPv4len && len(raw) != net.IPv6len {
		return nil, 0, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	return raw, int(n), true
}

// ownerOf returns the first started process that has a socket open.
func ownerOf(socket string) int {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	for _, dir := range names {
		fds, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue // a process of another user
		}
		for _, fd := range fds {
			if to, err := os.Readlink(dir + "/fd/" + fd.Name()); err == nil && to == socket {
				pid, _ := strconv.Atoi(filepath.Base(dir))
				return pid
			}
		}
	}
	return 0
}
