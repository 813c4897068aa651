// Package proc reads what Linux knows of a process.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the CPU times in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// CPU is the time that a process has spent on processors, in user and kernel
// mode, to 20 ms.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(stat)
}

// parseCPU takes utime and stime, the fields 14 and 15 as proc(5) counts. The
// second one, the program's name, may hold anything, but ends with the last ")".
func parseCPU(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc stat of %d fields after the name: this needs Linux", len(fields))
	}
	user, err := strconv.ParseInt(string(fields[11]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc stat: utime: %w", err)
	}
	system, err := strconv.ParseInt(string(fields[12]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc stat: stime: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

// Resident is the resident memory of this process, now and at its peak, in bytes.
func Resident() (now, peak int64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	if now, err = kibibytes(string(status), "VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = kibibytes(string(status), "VmHWM:")
	return now, peak, err
}

func kibibytes(status, name string) (int64, error) {
	_, rest, found := strings.Cut(status, "\n"+name)
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("/proc/self/status has no %s in kB: this needs Linux", name)
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	return n << 10, err
}

// TreeCPU is CPU of a process and all that descend from it together. Of those that have ended there is nothing.
func TreeCPU(root int) (sum time.Duration, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	children, spent := map[int][]int{}, map[int]time.Duration{}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil { // it has ended
			continue
		}
		if spent[pid], err = parseCPU(stat); err != nil {
			return 0, err
		}
		parent, err := strconv.Atoi(string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[1]))
		if err != nil {
			return 0, fmt.Errorf("/proc stat: ppid: %w", err)
		}
		children[parent] = append(children[parent], pid)
	}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		sum += spent[next[0]]
		next = append(next, children[next[0]]...)
	}
	return sum, nil
}

// ResidentOf is the resident memory of a process, in bytes.
func ResidentOf(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return kibibytes(string(status), "VmRSS:")
}
