# In the virtual machine: each line on the port is the number of a script in the folder that it shares with the test outside; it is run as
# root, and the line of the answer is its number and its exit status.
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0 2>/dev/null
ip route add default via 10.0.2.2 2>/dev/null
mountpoint -q /mnt || mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none share /mnt || exit 1
exec 3<>/dev/virtio-ports/control
echo "ready 0" >&3
while read -r n <&3; do
	sh "/mnt/$n.sh" >"/mnt/$n.out" 2>&1 </dev/null 3>&-
	echo "$n $?" >&3
done
