# A base that was bootstrapped: its files, as mmdebstrap packed them. The context holds rootfs.tar.
FROM scratch
ADD rootfs.tar /
CMD ["/bin/bash"]
