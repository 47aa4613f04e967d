#!/.guest/busybox sh
# First process of a guest: mounts, modules, the host's files if they are shared, then /.guest/main.
busybox=/.guest/busybox
for folder in proc sys dev run tmp root var etc usr/bin usr/sbin usr/lib; do $busybox mkdir -p /$folder; done
for link in bin sbin lib; do [ -e /$link ] || $busybox ln -s usr/$link /$link; done
$busybox chmod 1777 /tmp
$busybox mkdir -p /.guest/bin
$busybox --install -s /.guest/bin
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.guest/bin
. /.guest/settings

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
# The kernel loads modules on demand with this program.
echo /.guest/bin/modprobe >/proc/sys/kernel/modprobe

modprobe virtio_pci
modprobe virtio_console
modprobe 9pnet_virtio
modprobe 9p
modprobe tun

if [ "$host_files" = shared ]; then
    # The host's files below, the guest's own in memory above; what the guest has already hides the host's.
    modprobe overlay
    mkdir -p /.guest/host /.guest/memory /.guest/root
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /.guest/host || exec poweroff -f
    mount -t tmpfs -o size=80% memory /.guest/memory
    mkdir -p /.guest/memory/files/.guest /.guest/memory/work
    cp -a /.guest/bin /.guest/busybox /.guest/command /.guest/main /.guest/outputs /.guest/memory/files/.guest/
    for path in /*; do
        case $path in
            /proc | /sys | /dev | /init) ;;
            *) $busybox cp -a $path /.guest/memory/files/ && $busybox rm -rf $path ;;
        esac
    done
    PATH=/.guest/bin
    $busybox mount -t overlay -o lowerdir=/.guest/host,upperdir=/.guest/memory/files,workdir=/.guest/memory/work \
        root /.guest/root || exec $busybox poweroff -f
    for folder in proc sys dev; do $busybox mount --move /$folder /.guest/root/$folder; done
    exec $busybox switch_root /.guest/root /.guest/main
fi
exec /.guest/main
