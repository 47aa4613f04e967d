#!/.guest/busybox sh
# Runs a guest's command, copies its results to the host, and ends the guest.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.guest/bin HOME=/root LANG=C.UTF-8 TERM=dumb
# State of the host's system that is not the guest's.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock
[ -e /var/run ] || ln -s /run /var/run
mount -t tmpfs cgroup /sys/fs/cgroup 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
ifconfig lo 127.0.0.1 up

# The ports appear one after the other.
until [ -n "$control" ] && [ -n "$out" ] && [ -n "$err" ]; do
    for port in /sys/class/virtio-ports/*; do
        name=$(cat "$port/name" 2>/dev/null)
        case $name in
            control | out | err) eval "$name=/dev/${port##*/}" ;;
        esac
    done
done
exec 7>"$control"

echo "started $(uname -r) $(cut -d' ' -f1 /proc/uptime)" >&7
/.guest/command </dev/null >"$out" 2>"$err" 7>&-
echo "exited $? $(cut -d' ' -f1 /proc/uptime)" >&7

if [ -s /.guest/outputs ]; then
    mkdir -p /.guest/results
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 results /.guest/results 2>/.guest/errors ||
        echo "failed $(head -n1 /.guest/errors)" >&7
    number=0
    while read -r path; do
        if [ -e "$path" ]; then
            cp -a "$path" "/.guest/results/$number" 2>/.guest/errors || echo "failed $(head -n1 /.guest/errors)" >&7
        fi
        number=$((number + 1))
    done </.guest/outputs
    umount /.guest/results
fi
echo copied >&7
poweroff -f
